"""Many documents through one program.

documents   files, folders, streams and Python objects as documents; a row that cannot be read is one with an error
task        what is asked of every document, and which of its texts the program reads
rows        documents through an engine, in order; the row of the output that becomes of each
many        `extract_many`
"""
