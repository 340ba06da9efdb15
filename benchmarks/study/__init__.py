"""What every study shares: a process for each case, records to go on from, the table, the picture and the page."""
