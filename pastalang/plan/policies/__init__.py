"""One small module per policy: a part of a program comes in, segments and branches come out."""
