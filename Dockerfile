# A server for processors. pasta-mini is in the package; a model of a hub is downloaded at every start of a new container,
# unless a folder is mounted at /home/pasta/.cache/huggingface. Or mount a model at /models/NAME, and name that folder.
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
