"""Release values with noise: each mechanism has calibrated(…), profile(), release(data), and writes receipts."""
