"""What is given back at the end of a `with`."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["ContextManager"]


class ContextManager(ABC):
    """Something that is closed at the end of a `with`, also where that ends in an error."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is held."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; an error goes on."""
        self.close()
