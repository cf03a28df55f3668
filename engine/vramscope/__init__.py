"""VRAMScope: does this ONNX model fit this card, what fills it, and what capture and replay do to it."""
