"""Models: a step of tokens comes in, logits go out. `protocol` is all that the engine knows of them."""
