"""Where bytes live: devices, the ledger that counts every allocation, the governor that grants them."""
