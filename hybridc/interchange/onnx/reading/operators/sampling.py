"""The rules of sampling."""
