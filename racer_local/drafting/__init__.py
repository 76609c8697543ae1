"""What to draft: memory of the conversation and policies over it. Knows nothing of llama.cpp."""
