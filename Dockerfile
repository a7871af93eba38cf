# The studio in a container, on the CPU:
#   docker build -t glassformer .
#   docker run --rm -p 127.0.0.1:8421:8421 -e GLASSFORMER_STUDIO_KEY=… -v glassformer:/home/glassformer/.cache glassformer
# Your own models: -v ./my-bert:/models/my-bert:ro, and /models/my-bert behind the name of the image.
FROM python:3.12-slim

WORKDIR /src
COPY constraints.txt ./
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "$(grep ^torch== constraints.txt)"
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt '.[studio,chat]' && useradd --create-home glassformer \
    && install -d -o glassformer /home/glassformer/.cache
USER glassformer
WORKDIR /home/glassformer

EXPOSE 8421
# It is reached from outside its container, so that it asks for the key.
ENTRYPOINT ["glassformer", "studio", "--host", "0.0.0.0"]
