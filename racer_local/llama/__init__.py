"""Everything that talks to llama.cpp. No other part of the package imports `llama_cpp`."""
