"""Many documents through one program.

documents   what a document is; files, streams and objects of Python as documents; one that cannot be read has an error
rows        documents through an engine, in order; the row of the output that becomes of each
many        `extract_many`, and its extractions as a DataFrame
outputs     rows as JSON lines, CSV and Parquet
table       the same as a callable from an Arrow table to an Arrow table; the columns of a program
run         one run: reads, decodes, commits chunks of rows to its journal, stops, goes on
pool        documents through many processes, any of which may die
estimate    what a run will take, and how many documents a machine should decode at once
compare     the same answers written from left to right, and what makes them differ
report      an output read again, as one HTML page
"""
