"""Work of a gateway beside its requests: periodic, in the background, and made once for all who ask."""
