# Written by python -m hybridc.stubs; do not edit.
from hybridc.image import *
