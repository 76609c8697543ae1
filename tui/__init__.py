"""The terminal chat: draws what the decoding thread brings, and decides nothing about decoding."""
