"""References to snapshots and windows, which tasks pass on through XCom."""
