"""Many documents through one program.

documents   what a document is; objects of Python as documents; one that cannot be read has an error
files       files, folders and streams as documents
task        what is asked of every document, and which of its texts the program reads
rows        documents through an engine, in order; the row of the output that becomes of each
many        `extract_many`
table       the same as a callable from an Arrow table to an Arrow table; the columns of a program
output      chunks of rows on disk, and the file that is made of them
ledger      what a run has committed, what it was started with, and who is writing
run         one run: reads, decodes, commits, stops, goes on
pool        documents through many processes, any of which may die
tuning      how many documents a machine should decode at once, measured and remembered
estimate    what a run will take, before it is started
compare     the same answers written from left to right, and what makes them differ
saved       an output read again, with its run and its documents
report      an output as one HTML page
"""
