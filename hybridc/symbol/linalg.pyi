# Written by python -m hybridc.stubs; do not edit.
from hybridc.nd.linalg import *
