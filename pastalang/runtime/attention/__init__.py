"""What each token of a step attends to: view rows, masks, the KV cache, and the attention itself."""
