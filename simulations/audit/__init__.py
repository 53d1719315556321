"""Audit an attention function that is called as a black box."""
