"""Prepares what is trained on (once, outside every timed job) and hands it out in one fixed global order.

``batches`` is all that a timed job imports; scikit-learn, tokenizers and the corpus are needed by preparation alone.
"""
