"""What everything else stands on and users do not import; MXNet has no such names."""
