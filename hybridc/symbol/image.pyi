# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from hybridc.nd.namespace import lookup as lookup
from hybridc.array import operator_functions as _functions
adjust_lighting = _functions.image_adjust_lighting
crop = _functions.image_crop
flip_left_right = _functions.image_flip_left_right
flip_top_bottom = _functions.image_flip_top_bottom
normalize = _functions.image_normalize
random_brightness = _functions.image_random_brightness
random_color_jitter = _functions.image_random_color_jitter
random_contrast = _functions.image_random_contrast
random_crop = _functions.image_random_crop
random_flip_left_right = _functions.image_random_flip_left_right
random_flip_top_bottom = _functions.image_random_flip_top_bottom
random_hue = _functions.image_random_hue
random_lighting = _functions.image_random_lighting
random_resized_crop = _functions.image_random_resized_crop
random_saturation = _functions.image_random_saturation
resize = _functions.image_resize
to_tensor = _functions.image_to_tensor

