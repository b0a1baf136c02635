"""What a curve says: efficiency, speed-up, device-hours and the break-even, as pure functions of a table of points."""
