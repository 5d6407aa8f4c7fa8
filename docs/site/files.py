"""Links from a page to files and folders: a module leads to the reference, anything else to a page that shows it."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from docutils import nodes
from pygments.lexers import find_lexer_class_for_filename
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

PAGES = "files"  # the folder of the pages that show files
PACKAGE = Path("src", "munkey")


class Link(SphinxTransform):
    """Finds the links that lead to no page. What does not exist is left for Sphinx, which warns of it."""

    default_priority = 500

    def apply(self) -> None:
        files = self.document.findall(addnodes.download_reference)
        others = [
            link
            for link in self.document.findall(addnodes.pending_xref)
            if link["reftype"] == "myst"
        ]
        for link in [*files, *others]:  # folders among them, and Markdown, whose domain is "doc"
            markdown = link.get("refdomain") == "doc"
            name, path = self.env.relfn2path(
                f"/{link['reftarget']}.md" if markdown else link["reftarget"]
            )
            if Path(path).exists() and not (markdown and link["reftarget"] in self.env.found_docs):
                page, anchor = place(Path(name))
                target = self.app.builder.get_relative_uri(self.env.docname, page) + anchor
                shown = {} if anchor else {"shown": name}
                link.replace_self(
                    nodes.reference("", "", *link.children, refuri=target, internal=True, **shown)
                )


def place(path: Path) -> tuple[str, str]:
    """The page of a file or folder, and the place on it."""
    if path.suffix == ".py" and path.is_relative_to(PACKAGE):
        module = path.relative_to(PACKAGE.parent).with_suffix("")
        return (
            f"docs/reference/{'.'.join(module.parent.parts)}",
            f"#module-{'.'.join(module.parts)}",
        )
    return f"{PAGES}/{path.as_posix()}", ""


def shown(app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    """A page for each file and folder that a page links to, and for all that is in such a folder."""
    documents = map(app.env.get_doctree, app.env.found_docs)
    linked = {
        link["shown"]
        for document in documents
        for link in document.findall(nodes.reference)
        if "shown" in link
    }
    waiting = sorted(linked)
    for name in waiting:
        path = Path(app.srcdir, name)
        inside = (
            sorted(entry.name for entry in path.iterdir() if entry.name != "__pycache__")
            if path.is_dir()
            else []
        )
        waiting += [f"{name}/{entry}" for entry in inside if f"{name}/{entry}" not in linked]
        body = listed(path, inside) if path.is_dir() else highlighted(app, path)
        yield (
            f"{PAGES}/{name}",
            {"title": name, "body": f"<h1>{escape(name)}</h1>{body}"},
            "page.html",
        )


def listed(folder: Path, names: list[str]) -> str:
    entries = (
        f'<li><a href="{escape(folder.name)}/{escape(name)}.html">{escape(name)}</a></li>'
        for name in names
    )
    return f"<ul>{''.join(entries)}</ul>"


def highlighted(app: Sphinx, file: Path) -> str:
    lexer = find_lexer_class_for_filename(file.name)
    return app.builder.highlighter.highlight_block(
        file.read_text("utf-8"), lexer.aliases[0] if lexer else "text"
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(Link)
    app.connect("html-collect-pages", shown)
    return {"parallel_read_safe": True}
