"""Work that is done at once, in the process of the test: pages without processes."""

from undertow.errors import UndertowError
from undertow_studio.jobs import Job, Jobs
from undertow_studio.rendering import in_words


class Inline(Jobs):
    """Does each piece of work when it is asked for."""

    def warm(self):
        """Start nothing."""

    def _do(self, job: Job, later: bool) -> None:
        try:
            job._settle("done", result=job.call(*job.arguments))
        except UndertowError as error:
            job._settle("refused", reason=in_words(error))

    def ask(self, key, call, *arguments, later=False):
        found = self.known(key)
        if found is not None and found.status not in ("failed", "cancelled"):
            return found
        job = Job(key, call, arguments)
        self._jobs[job.id], self._keys[key] = job, job.id
        self._do(job, later)
        return job
