# A server for processors. The model is downloaded at the first start; mount a folder at /models to keep one.
FROM python:3.12-slim
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch
COPY . /source
RUN pip install --no-cache-dir '/source[serve]' && rm -r /source
RUN useradd --create-home pasta
USER pasta
EXPOSE 8000
HEALTHCHECK CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/ready')"
# PASTALANG_API_KEY has to be set: the server can be reached from outside its container.
ENTRYPOINT ["pasta", "serve", "--host", "0.0.0.0"]
CMD ["pasta-mini"]
