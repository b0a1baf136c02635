"""How training is split over devices: one file per strategy, each telling its whole story."""
