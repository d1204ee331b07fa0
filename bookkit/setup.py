"""Pack the display code, the exercises of each page, and *Your Transformer*.

Wrong answers and teachers' notes are not packages, and stay behind.
"""

from setuptools import find_namespace_packages, find_packages, setup

setup(
    packages=[
        "bookkit",
        *(f"bookkit.{name}" for name in find_packages(".")),
        "pages",
        *(f"pages.{name}" for name in find_namespace_packages("../pages")),
        "grading",
        "your_transformer",
    ],
    package_dir={
        "bookkit": ".",
        "pages": "../pages",
        "grading": "../course/grading",
        "your_transformer": "../course/your_transformer",
    },
    package_data={"": ["*.css", "*.js", "*.json", "*.csv"]},
)
