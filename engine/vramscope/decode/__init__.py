"""Text in, text out: KV buckets, the decode state machine, sampling, the tokenizer."""
