"""Fine-tuning for parallel decoding (`pasta train`), and scores of what a model extracts (`pasta evaluate`)."""
