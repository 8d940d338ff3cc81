"""Regenerate the tables in docs/formats from the declarations; run it after a declaration changed."""

from __future__ import annotations

from pathlib import Path

from rmqstore.formats.describe import render_page

PAGES = Path(__file__).parent / "formats"


def main() -> None:
    for page in sorted(PAGES.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        new = render_page(old)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(f"{page.name}: tables regenerated")


if __name__ == "__main__":
    main()
