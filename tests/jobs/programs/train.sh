python steps.py
exit 4
