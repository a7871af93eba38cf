"""The HTTP API: models that official clients of OpenAI and Hugging Face use unchanged, each in a process of its own."""
