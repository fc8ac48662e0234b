"""The rules of spectra."""
