"""The files of the ledger as a Spark driver reads and writes them."""
