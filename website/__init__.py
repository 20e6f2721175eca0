"""The site: what mkdocs needs beside the pages of docs/."""
