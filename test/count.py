"""Counts the subtests in meson's JUnit log: prints PASSED FAILED SKIPPED."""
import sys
import xml.etree.ElementTree as tree

passed = failed = skipped = 0
for case in tree.parse(sys.argv[1]).getroot().iter("testcase"):
    outcomes = {child.tag for child in case}
    if outcomes & {"failure", "error"}:
        failed += 1
    elif "skipped" in outcomes:
        skipped += 1
    else:
        passed += 1
print(passed, failed, skipped)
