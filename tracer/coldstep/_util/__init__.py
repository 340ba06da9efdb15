"""What any module may use and nobody outside of coldstep should: small helpers that know nothing of traces."""
