"""PastaLang beside what people would pick instead: the same documents, weights, instructions and types.

python -m benchmarks.rivals measure [--minutes 20] [--tasks A C] [--sides ...]     writes results/speed.json
python -m benchmarks.rivals page                                                   docs/speed.md and README's table
"""
