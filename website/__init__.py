"""The site: what mkdocs has to be told beside the pages of docs/."""
