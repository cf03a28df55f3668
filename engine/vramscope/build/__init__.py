"""Making models: decoders from a configuration, SmolLM2 from its GGUF file, and the bundled samples."""
