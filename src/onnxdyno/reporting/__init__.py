"""Findings as text: JSON documents, terminal tables, a page of Markdown, a page of HTML. Pure: values in, text out."""
