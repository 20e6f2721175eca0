"""The machine: from a plan, inputs and a model to a typed result. torch lives here and nowhere above."""
