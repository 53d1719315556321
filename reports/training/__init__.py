"""Training experiments told: records, tables, the page's section, the journal, the claims."""
