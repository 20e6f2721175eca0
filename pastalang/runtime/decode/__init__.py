"""From logits to accepted tokens: guides, the sampler, the seams."""
