# The server and the studio in a container, on the CPU:
#   docker build -t glassformer .
#   docker run --rm -p 127.0.0.1:8000:8000 -e GLASSFORMER_SERVE_KEY=… glassformer serve zoo:embed-mini-en --host 0.0.0.0
#   docker run --rm -p 127.0.0.1:8421:8421 -e GLASSFORMER_STUDIO_KEY=… glassformer studio --host 0.0.0.0
# Your own models: -v ./my-bert:/models/my-bert:ro, and /models/my-bert among the names.
FROM python:3.12-slim

WORKDIR /src
COPY constraints.txt ./
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "$(grep ^torch== constraints.txt)"
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt '.[serve,studio,chat]' && useradd --create-home --uid 1000 glassformer
USER 1000
WORKDIR /home/glassformer

EXPOSE 8000 8421
# SIGTERM drains the server: what is open is brought to its end.
STOPSIGNAL SIGTERM
ENTRYPOINT ["glassformer"]
CMD ["studio", "--host", "0.0.0.0"]
