"""The messages of the protocol, one file a subject; ``vramscope.protocol`` puts them together."""
