"""The steps that make text private: noise, mechanisms, search, release."""
