"""The word lists that invented people are made of: one text file a kind of word."""
