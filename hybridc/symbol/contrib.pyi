# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from hybridc.nd.contrib import *
