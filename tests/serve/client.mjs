// What the client of OpenAI for Node gets from the server at ADDRESS; test_clients.py looks at what is printed.
import OpenAI from "openai";
const client = new OpenAI({baseURL: process.env.ADDRESS + "/v1", apiKey: "key", maxRetries: 0});
const messages = [{role: "user", content: "x"}];
const schema = JSON.parse(process.env.SCHEMA);
const response_format = {type: "json_schema", json_schema: {name: "coffee", strict: true, schema}};
const whole = await client.chat.completions.create({model: "toy", messages, response_format});
let text = "";
for await (const part of await client.chat.completions.create({model: "toy", messages, response_format, stream: true}))
  text += part.choices[0]?.delta?.content ?? "";
const tool = {type: "function", function: {name: "set", parameters: JSON.parse(process.env.TOOL)}};
const called = await client.chat.completions.create({model: "toy", messages, tools: [tool], tool_choice: "required"});
let status = 0;
const wrong = {model: "toy", messages, logit_bias: {"1": 5}};
await client.chat.completions.create(wrong).catch(error => status = error.status);
console.log(JSON.stringify({whole: whole.choices[0].message.content, text, status,
  call: called.choices[0].message.tool_calls[0].function}));
